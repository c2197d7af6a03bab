"""What a run shows and leaves behind: the table of its metrics, its learning curve, its progress."""

"""The nouns and the seams: what every room may import. No I/O, and nothing of ours from outside this folder."""

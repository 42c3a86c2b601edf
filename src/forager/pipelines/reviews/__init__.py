"""Google Business Profile reviews: accounts → locations → reviews. Start reading at `pipeline.py`."""

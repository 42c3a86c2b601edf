"""Google Business Profile reviews: accounts → locations → reviews, one task per page. Start reading at `pipeline.py`."""

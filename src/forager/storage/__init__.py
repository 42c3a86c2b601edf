"""Storage of files: a local folder, or a prefix in an S3 bucket, behind the port `core/storage.py`."""

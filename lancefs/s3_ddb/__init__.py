"""Tables on S3 whose commits DynamoDB records: `s3+ddb://bucket/t.lance?ddbTableName=commits`.

`filesystem` is the fsspec filesystem, `commit_table` reads the DynamoDB table. Nothing is written.
"""

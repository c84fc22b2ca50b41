"""Tables whose commits DynamoDB decides: `s3+ddb://bucket/t.lance?ddbTableName=commits`.

`filesystem` shows the store, `commits` reads the table of DynamoDB. Nothing here writes.
"""

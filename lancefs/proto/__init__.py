"""Protobuf messages of the Lance table and file formats.

Generated from ``protos/*.proto`` by ``make protos`` and checked in; do not edit the ``*_pb2``
modules. They need only the protobuf runtime, any release from 4.25 on.

``table_pb2``, ``transaction_pb2``, ``rowids_pb2``, ``index_pb2`` describe tables, ``vectors_pb2`` is
in files of vector indices, ``schema_pb2`` describes fields
(and the footer of 0.1 files), ``container_pb2`` the frame of 2.x data files,
``encodings_v2_0_pb2``, ``encodings_v2_1_pb2`` (2.1 and 2.2) and ``encodings_v2_3_pb2`` what is in
their pages.
"""

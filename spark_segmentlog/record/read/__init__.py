"""From bytes to Arrow: headers as a table, then records as columns.

Uses `kernels`, `plain` and `codec`. For others: `header_table` (`HeaderTable`), `decoder`
(`RecordDecoder`), `record_filter`.
"""

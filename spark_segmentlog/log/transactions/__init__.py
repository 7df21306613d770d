"""Who wrote what in a transaction, and how it ended.

Uses `segment`. For others: `outcomes` (`TransactionOutcomes`: what a reader may see),
`producer_tracker` (the one state machine over batches), `producer_survey`.
"""

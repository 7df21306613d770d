"""What writes: staging, the commit over several directories, and the appender.

Uses `partition`. For others: `commit`, `staging`, `targets`, `local_log` (`open_log`), `preflight`
(what a broker would lose).
"""

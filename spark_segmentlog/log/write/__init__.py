"""What writes: staging, the commit over several directories, and the appender.

Uses `partition`. For others: `commit`, `open_commits` (the locks), `staging`, `targets`,
`local_log` (`open_log`), `preflight` (what a broker would lose).
"""

"""The engine across machines, NVIDIA FLARE 2.9: kits, processes, jobs and its Collab API. It sees messages, never rows."""

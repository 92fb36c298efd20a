"""Requests and stored records, as typed objects."""

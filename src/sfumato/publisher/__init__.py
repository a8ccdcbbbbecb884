"""The publisher's side: policy, table, survey, proposal, publication."""

"""Pure functions of arrays. Nothing here knows about estimators, tables or files."""

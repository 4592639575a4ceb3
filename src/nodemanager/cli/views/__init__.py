"""How things look: tables, descriptions, plans. Objects in, text out."""

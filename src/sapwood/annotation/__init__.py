"""Annotation: sentences whose trees a person corrects while a parser proposes the rest, kept in a project folder."""

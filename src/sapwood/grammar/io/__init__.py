"""Grammar files in other formats: text grammars and BerkeleyParser's grammars."""

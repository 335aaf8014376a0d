"""N-gram counts of text: vocabulary, external sort and storage."""

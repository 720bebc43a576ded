//! SQL-92 message selectors: lexer, parser, bounded evaluation

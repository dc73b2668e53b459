//! One agent: the loop, its budget, its prompt.

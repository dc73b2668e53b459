//! The black-box suite: the real binary against real parts on loopback.

//! The scripted upstream, the recording proxy and the comparison of harnesses.

//! Wireshark's dissectors.

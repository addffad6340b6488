//! Tags of one byte.

/// Of a field that is a number.
pub(crate) const fn number(field: u32) -> u8 {
    assert!(field < 16);
    (field << 3) as u8
}

/// Of a field that is a message or a text.
pub(crate) const fn message(field: u32) -> u8 {
    number(field) | 2
}

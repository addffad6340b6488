//! The bytes of the buffer.
use crate::CreateError;
#[derive(Debug)]
pub(crate) struct Ring {}
impl Ring {
    pub(crate) fn new(_size_bytes: usize) -> Result<Self, CreateError> {
        todo!()
    }
    pub(crate) fn size(&self) -> usize {
        todo!()
    }
    pub(crate) fn used(&self) -> usize {
        todo!()
    }
}

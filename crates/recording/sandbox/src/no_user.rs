//! Systems that are not Linux are not asked to change the user.

use std::str::FromStr;

use crate::{Capability, UserError};

/// No user can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {}

impl FromStr for User {
    type Err = UserError;

    fn from_str(name: &str) -> Result<Self, UserError> {
        Err(UserError::Unknown { user: name.to_owned() })
    }
}

/// There is nobody to become.
///
/// # Errors
/// Never: there is no such user.
pub fn become_user(user: &User, _: &[Capability]) -> Result<(), UserError> {
    match *user {}
}

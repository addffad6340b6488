//! Attacks that were none.

use std::{error, fmt, io};

/// The service took nothing of an attack: whatever it would have cost, the case has not tried it.
#[derive(Debug)]
pub struct Refused(String);

impl Refused {
    /// The end of such an attack.
    pub fn because(why: impl Into<String>) -> io::Error {
        io::Error::other(Self(why.into()))
    }

    /// An error unless the service did what the attack is about.
    pub fn unless(is_done: bool, why: &str) -> io::Result<()> {
        if is_done { Ok(()) } else { Err(Self::because(why)) }
    }

    pub(crate) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|error| error.is::<Self>())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Refused {}

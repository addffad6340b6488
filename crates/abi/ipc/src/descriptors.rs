//! How many descriptors a daemon may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the process have as many as the system allows it. The soft limit of 1,024 is for programs that use `select`; what a daemon
/// has grows with the programs and sessions that it serves. Call it before the process is shut in.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!("the limit of descriptors stays as it is: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_may_be() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}

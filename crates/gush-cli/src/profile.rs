//! The user's measured profile, for commands that let the engine choose.

use std::env;
use std::sync::Arc;

use gush::Profile;

/// The environment's `--no-profile`, for programs called by a familiar name.
const NO_PROFILE: &str = "GUSH_NO_PROFILE";

/// The user's profile, unless there is none or `--no-profile` or `GUSH_NO_PROFILE` forbids using a profile.
pub fn of_user(no_profile: bool) -> Option<Arc<Profile>> {
    let forbidden = no_profile || env::var_os(NO_PROFILE).is_some_and(|value| !value.is_empty());
    if forbidden { None } else { Profile::of_user().map(Arc::new) }
}

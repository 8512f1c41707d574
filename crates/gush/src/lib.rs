//! gush

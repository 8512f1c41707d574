//! gush-tree

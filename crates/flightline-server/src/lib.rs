//! flightline-server

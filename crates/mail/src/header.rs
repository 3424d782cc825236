//! Header scanning without copying.

// Package hostmemory takes memory from the system for what is large and lives long: the buffers of the CPU backend, and blocks
// below the device. It is outside of the Go heap, where the collector would wait for as much garbage again.
package hostmemory

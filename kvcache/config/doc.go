// Package config describes what a cache holds, and computes what follows from it: defaults and
// environment variables, sizes in bytes, and the fingerprint that block keys depend on. It does not
// use a device. Most programs need only its alias kvcache.Config.
package config

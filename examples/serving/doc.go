// Package serving turns the program of package quickstart into one that serves many callers, by package schedule.
package serving

// Package window shows layers that see different parts of the past: one a sliding
// window, one everything. Both are served by the same plan.
package window

// Package extremes has a test that calls every exported function and method of the library with values that no program
// intends: zeros, the largest and smallest numbers, and values that are empty, nil, closed, or of another device or pool.
package extremes

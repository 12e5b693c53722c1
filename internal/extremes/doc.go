// Package extremes has a test that calls every exported function and method of the library with values that no program
// means: zeros, the largest and the smallest numbers, what is empty, nil, closed, or of another device or pool.
package extremes

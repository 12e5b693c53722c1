// Package conventions has tests of what holds for the repository as a whole, which no
// package could test of itself: what users compile, and that what documents name exists.
package conventions

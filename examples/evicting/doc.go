// Package evicting shows a long text in a small cache: of the tokens behind the first few
// and before the newest, those stay that got most attention (H2O).
package evicting

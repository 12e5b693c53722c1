// Package evicting shows a long text in a small cache: the first tokens and the newest
// stay, and of those between them the ones that got the most attention (H2O).
package evicting

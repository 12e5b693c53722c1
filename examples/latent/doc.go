// Package latent shows a layer of multi-head latent attention (MLA): the values are the first elements of the keys, which
// are stored once.
package latent

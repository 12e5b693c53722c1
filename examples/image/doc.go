// Package image shows images in prompts, whose tokens see each other.
package image

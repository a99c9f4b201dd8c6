//go:build !unix

package ffmpeg

import "errors"

func descriptor() string { return "" }

func linkInput(string, string, string) (string, error) {
	return "", errors.New("this system cannot hand an open file to ffmpeg by name")
}

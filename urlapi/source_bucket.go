package urlapi

import "strings"

// Bounds of S3, which the API applies to every kind of bucket.
const (
	maxBucketBytes = 63
	maxKeyBytes    = 1024
)

// parseBucket keeps both halves byte for byte: in a bucket, "a//b" and "a/./b" are names of their own.
func parseBucket(scheme, rest string) (Source, string) {
	bucket, key, _ := strings.Cut(rest, "/")
	switch {
	case bucket == "" || key == "":
		return Source{}, "bucket and key are both needed"
	case len(bucket) > maxBucketBytes:
		return Source{}, "bucket name too long"
	case len(key) > maxKeyBytes:
		return Source{}, "key too long"
	case !isBucketName(bucket):
		return Source{}, "not a bucket name"
	}
	return Source{
		Scheme:    scheme,
		Path:      rest,
		authority: bucket,
		canonical: scheme + "://" + rest,
	}, ""
}

// isBucketName admits what any of the providers does, old names and Azure's $root included. Since a bucket's name ends
// up in a host name or a path, nothing else may get there, nor the two names that mean a folder.
func isBucketName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && strings.IndexByte("-._$", c) < 0 {
			return false
		}
	}
	return s != "." && s != ".."
}

// BucketKey returns the two halves of a source in a bucket; both are empty for any other source.
func (s Source) BucketKey() (bucket, key string) {
	switch s.Scheme {
	case SchemeS3, SchemeGS, SchemeAzure:
		bucket, key, _ = strings.Cut(s.Path, "/")
	}
	return bucket, key
}

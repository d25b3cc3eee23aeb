package Helpers;

# What every program needs: the server's address, and lines to be compared.

use strict;
use warnings;
use Exporter 'import';
use JSON::PP;

our @EXPORT = qw($host $port $address show near);
our ($host, $port) = @ENV{qw(HOST PORT)};
our $address = "$host:$port";
my $json = JSON::PP->new->canonical->allow_nonref->allow_blessed;
$| = 1;

# One line of the program's result.
sub show {
    my ($what, @values) = @_;
    print "$what: ", join(' ', map { ref $_ ? $json->encode($_) : defined $_ ? "'$_'" : 'undef' } @values), "\n";
}

# Whether a TTL is what was set, but for a moment that has gone by.
sub near {
    my ($seconds, $expected) = @_;
    return $expected - 3 <= $seconds && $seconds <= $expected ? 1 : 0;
}

1;

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Helpers;
use Memoize;
use Memoize::Memcached memcached => { servers => [$address] };

my $calls = 0;
sub double { $calls++; return 2 * $_[0] }
memoize_memcached('double', expire_time => 60);
show('memoized', scalar(double(3)), scalar(double(3)), $calls);

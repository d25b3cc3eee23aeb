use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Helpers;
use Cache::Memcached;

# A busy machine may take longer than its second.
my %patient = (connect_timeout => 20, select_timeout => 20);
my $m = Cache::Memcached->new({ servers => [$address], %patient });
show('set', $m->set('a', { n => 1 }, 60), $m->get('a'), $m->add('a', 2) ? 1 : 0);
$m->set('x', 5);
show('many', $m->get_multi('a', 'none', 'x'), $m->incr('x', 4), $m->decr('x', 1));
show('delete', $m->delete('a') ? 1 : 0, $m->get('a'), $m->replace('x', 2) ? 1 : 0);

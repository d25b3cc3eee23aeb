use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Helpers;
use CHI;

my $cache = CHI->new(driver => 'Memcached', namespace => 'app', servers => [$address]);
my $calls = 0;
my $made = sub { $cache->compute('made', '1 min', sub { ++$calls }) };
show('compute', $made->(), $made->(), $calls);
show('set', $cache->set('a', { n => 1 }, '1 min'), $cache->get('a'));
$cache->remove('a');
show('removed', $cache->get('a'));
